package rsock

import (
	"io"
	"net"
	"syscall"
	"time"
)

// carrier moves the bytes of a Conn, by TCP or by RDMA. Its methods have the meaning of the
// methods of Conn.
type carrier interface {
	net.Conn
	io.ReaderFrom
	io.WriterTo
	syscall.Conn
	CloseRead() error
	CloseWrite() error
	SetNoDelay(bool) error
	SetLinger(int) error
	WriteUrgent([]byte) (int, error)
	ReadUrgent([]byte) (int, error)
	Stats() Stats
}

// Conn is a connection over RDMA or over TCP. It is a net.Conn. Safe for concurrent use.
//
// Source: [WSD §1]
type Conn struct {
	via       carrier
	transport Transport
}

var (
	_ net.Conn     = (*Conn)(nil)
	_ syscall.Conn = (*Conn)(nil)
)

// Transport returns the transport of the connection, and the reasons against the preferred
// providers. The result does not change.
func (c *Conn) Transport() Transport { return c.transport }

// Read reads data from the connection. Over RDMA, large data goes straight into p if p is
// large enough when the data arrives.
//
// Errors: io.EOF once the peer has ended its stream, or after CloseRead; ECONNRESET
// (wrapped) if the connection broke; os.ErrDeadlineExceeded (wrapped); net.ErrClosed
// (wrapped) after Close.
func (c *Conn) Read(p []byte) (int, error) { return c.via.Read(p) }

// Write writes data to the connection. It returns when p is the caller's again.
//
// Errors: the errors of Read except io.EOF; ENOBUFS (wrapped) if memory could not be
// allocated or registered, after which the stream can still be used; EPIPE (wrapped) after
// CloseWrite.
func (c *Conn) Write(p []byte) (int, error) { return c.via.Write(p) }

// ReadFrom writes the data that r returns until its end, and returns the number of bytes.
// Over TCP it uses the system calls that move data between descriptors.
func (c *Conn) ReadFrom(r io.Reader) (int64, error) { return c.via.ReadFrom(r) }

// WriteTo writes the data of the peer's stream to w until its end, and returns the number of
// bytes.
func (c *Conn) WriteTo(w io.Writer) (int64, error) { return c.via.WriteTo(w) }

// Close closes the connection as TCP does: written data is still delivered, unless SetLinger
// says otherwise. Over RDMA the process delivers the data, not the system. So Close waits
// for up to 100 ms until the peer has the data. Then Close returns, and the delivery goes on
// in the background for up to Config.Linger. A program that is about to exit calls Drain of
// its Dialer or Listener first. Up to 1024 connections of a Dialer, or of a Listener, are
// closed in the background; with more, Close waits longer. A second Close fails with
// net.ErrClosed (wrapped).
func (c *Conn) Close() error { return c.via.Close() }

// CloseRead ends reading. Data that arrives from then on is dropped.
func (c *Conn) CloseRead() error { return c.via.CloseRead() }

// CloseWrite ends this side's stream. The peer reads io.EOF after the written data.
func (c *Conn) CloseWrite() error { return c.via.CloseWrite() }

// LocalAddr returns this side's address, a *net.TCPAddr. Over a fabric without ports the port
// of the dialing side is a number that only identifies the connection.
func (c *Conn) LocalAddr() net.Addr { return c.via.LocalAddr() }

// RemoteAddr returns the peer's address, a *net.TCPAddr; see LocalAddr.
func (c *Conn) RemoteAddr() net.Addr { return c.via.RemoteAddr() }

// SetDeadline sets the read and the write deadline.
func (c *Conn) SetDeadline(t time.Time) error { return c.via.SetDeadline(t) }

// SetReadDeadline sets the deadline of Read, ReadUrgent and WriteTo.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.via.SetReadDeadline(t) }

// SetWriteDeadline sets the deadline of Write, WriteUrgent and ReadFrom.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.via.SetWriteDeadline(t) }

// SetNoDelay sets whether TCP sends small data at once, which is the default. RDMA always
// sends small data at once.
func (c *Conn) SetNoDelay(noDelay bool) error { return c.via.SetNoDelay(noDelay) }

// SetLinger sets how Close treats data that is not delivered, as net.TCPConn.SetLinger does.
// With 0 seconds Close drops the data, and the peer sees a reset. With a positive number
// Close waits for up to that time until the peer has the data. With a negative number the
// delivery goes on in the background, which is the default.
func (c *Conn) SetLinger(sec int) error { return c.via.SetLinger(sec) }

// SyscallConn returns the socket of a connection over TCP.
//
// Errors: errors.ErrUnsupported (wrapped) over RDMA, which has no descriptor.
func (c *Conn) SyscallConn() (syscall.RawConn, error) { return c.via.SyscallConn() }

// WriteUrgent sends p beside the stream, for the peer's ReadUrgent.
//
// Errors: the errors of Write; errors.ErrUnsupported (wrapped) over TCP. Urgent data of TCP
// is a single byte, which becomes part of the stream if the peer does not read it in time.
//
// Source: [WSD §5.5]
func (c *Conn) WriteUrgent(p []byte) (int, error) { return c.via.WriteUrgent(p) }

// ReadUrgent waits for urgent data and reads it.
//
// Errors: the errors of Read; errors.ErrUnsupported (wrapped) over TCP.
//
// Source: [WSD §5.5]
func (c *Conn) ReadUrgent(p []byte) (int, error) { return c.via.ReadUrgent(p) }

// Stats returns the counters of the connection over RDMA; all are 0 over TCP.
func (c *Conn) Stats() Stats { return c.via.Stats() }

// Stats are the counters of a connection over RDMA.
type Stats struct {
	// BytesRead and BytesWritten are bytes that the program has read and written.
	BytesRead, BytesWritten uint64
	// RDMARead and RDMAWritten are the bytes of BytesRead and BytesWritten that moved by
	// RDMA.
	RDMARead, RDMAWritten uint64
	// MessagesReceived and MessagesSent are control messages.
	MessagesReceived, MessagesSent uint64
	// SendStalls is how often a message had to wait for a credit or a buffer.
	SendStalls uint64
	// UrgentDropped is urgent data that was not read in time, in bytes.
	UrgentDropped uint64
}
