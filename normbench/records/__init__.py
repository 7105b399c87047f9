"""What is found: samples, and the record of one case by one provider. Pure."""
