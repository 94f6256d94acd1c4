// Package srvsvc answers the calls of the Server Service Remote Protocol that list shares. The
// messages are PDUs of DCE/RPC on the named pipe srvsvc of IPC$.
//
// [Serve] turns the bytes of one request into the bytes of its response. It keeps no state: a
// call is answered with or without a bind before it. A request of several fragments is refused,
// because no call that is offered needs one.
//
// Source: [MS-SRVS 3.1.4], [MS-RPCE 2.2.2], [C706 12.6]
package srvsvc
