"""The drill environment: short procedural exercises in using tools."""
