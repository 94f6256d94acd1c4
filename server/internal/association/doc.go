// Package association ties RDMA connections to SMB sessions, on the server.
//
// A client negotiates on the pipe "lwio" of its SMB session (Association.Negotiate). The two sides
// exchange keys, and the client receives the addresses of the common providers. AUTH, the first
// message of a connection, proves the knowledge of both keys. The keyed signature also proves the
// knowledge of the application key of that session (Check, Admit, Answer). The keys, and the
// connections that they admitted, belong to the lineage of the session: they outlive the loss of an SMB
// connection, and end with the lineage.
//
// The package uses SMB only by the interface Lineage, and connections only by the interface Conn.
// It makes no connection and reads no file.
//
// All methods of Association are safe for concurrent use. Its table of keys has one lock, a
// leaf: no method of Conn or Lineage is called with it held.
//
// Source: [LWIO §Network Discovery] [LWIO §Connection Authentication]
package association
