"""What other evaluation harnesses asked and recorded, as datasets, answers and templates."""
