"""Files to pages: PDFs and images are opened, measured and rendered here, in a process of their own."""
