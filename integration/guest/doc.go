// Package guest boots a Linux system of its own under an emulator, with the
// kernel's software iWARP (siw) on its network card, and runs commands there, so
// that tests meet an RDMA stack that nobody here wrote. ./setup makes the system
// from Debian's packages, once; ./run boots it; both are of use by hand.
//
// The guest's address is Addr. A test on the host is at Host for the guest, and
// reaches it by the ports that Start leads in. What is to be at both ends of the
// guest's own network, so that TCP's segments are what siw made them, runs in the
// agent, which is the program that Start puts into the guest.
package guest
