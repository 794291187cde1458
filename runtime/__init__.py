"""The runtime: executes physical plans as maintained collections. It never imports the compiler."""
