// Package paths has the RDMA connections of a client: the choice of the provider, the
// negotiation with the server, reconnection, the fence before I/O over SMB, and the balance of
// requests between several connections.
//
// Each Path has one goroutine, which makes the connection, waits for its loss, and replaces it.
// While the SMB session is replaced after a loss it waits for that. It ends with the client, or
// when the SMB session has ended for good.
//
// Source: [LWIO §Discovery], [OP-112]
package paths
