//! The C face: hanare.h and dimmnet.h.
