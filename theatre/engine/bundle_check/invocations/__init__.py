"""What constructs and judges were asked and what they answered, as it was recorded."""
