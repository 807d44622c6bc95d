"""What sandboxes in containers and pods share: the worker in each, the conversation with it, and spares."""
