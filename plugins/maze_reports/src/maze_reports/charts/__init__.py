"""Charts as SVG text, coloured by the style of the page they stand in."""
