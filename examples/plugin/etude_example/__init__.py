"""Extensions of Etude by a third party: one file each for a generator, an environment, a hint and a monitor."""
