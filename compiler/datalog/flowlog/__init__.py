"""FlowLog's dialect: translation of its programs to the common syntax tree, with loops as rounds."""
