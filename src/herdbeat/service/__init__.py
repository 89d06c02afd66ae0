"""What the faces may ask and do. So far: questions that need no store."""
