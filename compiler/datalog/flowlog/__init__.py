"""FlowLog's dialect: its programs translated to rules of the core."""
