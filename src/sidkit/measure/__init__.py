"""What semantic IDs are judged by."""
