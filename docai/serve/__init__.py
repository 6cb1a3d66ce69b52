"""The server: documents and chat over HTTP."""
