//! AWS wire protocols to service commands and back; signatures; one port.
