"""Pictures of networks: layout, SVG, Mermaid text, and the logger that draws them."""
