"""What crosses the border of the program: what people type, files, URLs, and text for a terminal."""
