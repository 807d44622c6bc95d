"""Where do the results of the added code come from? Tables, packed data, the tests themselves, and other files."""
