"""What is shown in a browser: from the service, and as a file of its own."""
