// Package guest boots a Linux system under an emulator, with the kernel's software iWARP
// (siw) on its network card, the kernel's SMB client (cifs) and systemd, and runs commands there. Tests
// thus use an independent RDMA stack, an independent SMB client and the supervisor of most hosts. ./setup makes
// the system from Debian's packages, once. ./run boots it. Both scripts can be used by hand.
//
// The guest's address is Addr. In the guest, a test on the host has the address Host. The
// test reaches the guest by the ports that Start forwards. Tests of the TCP segments of siw
// have both ends in the guest: they run in the agent, the program that Start puts into the
// guest.
package guest
