"""The loop: takes samples on the tick grid, decides, and posts on the board."""
