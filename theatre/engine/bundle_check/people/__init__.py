"""What people gave, held against what they were asked."""
