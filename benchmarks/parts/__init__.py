"""What is measured, a file each: `run(scene)` fills the scene's record."""
