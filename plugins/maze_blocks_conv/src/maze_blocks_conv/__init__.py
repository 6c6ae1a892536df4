"""Convolution blocks."""
