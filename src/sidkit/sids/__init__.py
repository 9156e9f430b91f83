"""What sidkit makes: semantic IDs."""
