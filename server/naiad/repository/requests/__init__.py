"""What load and unload requests may ask for beyond one model of one repository."""
