"""LSTM and GRU blocks over stacked time."""
