"""The online guillotine 2D cutting-stock problem, flat, structured and masked."""
