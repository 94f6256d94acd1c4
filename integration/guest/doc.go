// Package guest boots a Linux system of its own under an emulator, with the
// kernel's software iWARP (siw) on its network card, and runs commands there, so
// that tests meet an independent RDMA stack. ./setup makes the system
// from Debian's packages, once; ./run boots it; both are of use by hand.
//
// The guest's address is Addr. A test on the host has the address Host in the guest, and
// reaches the guest by the ports that Start forwards. Tests of TCP segments as siw makes them
// have both ends in the guest's own network: they run in the agent, the program that Start
// puts into the guest.
package guest
