// Package association ties RDMA connections to SMB sessions, on the server.
//
// A client negotiates on the pipe "lwio" of its SMB session (Association.Negotiate). The two sides
// exchange keys, and the client receives the addresses of the common providers. AUTH, the first
// message of a connection, proves the knowledge of both keys. The keyed signature also proves the
// knowledge of the application key of the SMB session (Check, Admit, Answer). The keys, and the
// connections that they admitted, end with the session.
//
// The package uses SMB only by the interface Session, and connections only by the interface Conn.
// It makes no connection and reads no file.
//
// All methods of Association are safe for concurrent use. Its table of keys has one lock, a
// leaf: no method of Conn or Session is called with it held, but Session.ApplicationKey.
//
// Source: [LWIO §Network Discovery] [LWIO §Connection Authentication]
package association
