package rsock

import (
	"io"
	"net"
	"syscall"
	"time"
)

// carrier is what moves the bytes of a Conn: TCP, or a session over RDMA. Its methods are
// those of Conn.
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

// Conn is a connection: a net.Conn that went by RDMA or by TCP, which was decided when it
// was made. Safe for concurrent use, as every net.Conn.
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

// Transport tells what carries the connection, and why not something better. It does not
// change.
func (c *Conn) Transport() Transport { return c.transport }

// Read reads as net.Conn says. Over RDMA, large data goes straight into p if p is large
// enough for it when it arrives.
//
// Errors: io.EOF once the peer has ended its stream, or after CloseRead; ECONNRESET
// (wrapped) if it broke off; os.ErrDeadlineExceeded (wrapped); net.ErrClosed (wrapped)
// after Close.
func (c *Conn) Read(p []byte) (int, error) { return c.via.Read(p) }

// Write writes as net.Conn says. It returns when p is the caller's again.
//
// Errors: as Read has; ENOBUFS (wrapped) if memory could not be had or registered, after
// which the stream can still be used; EPIPE (wrapped) after CloseWrite.
func (c *Conn) Write(p []byte) (int, error) { return c.via.Write(p) }

// ReadFrom writes what r gives until its end, and returns how many bytes that were. Over
// TCP it uses what the system has to move data between descriptors.
func (c *Conn) ReadFrom(r io.Reader) (int64, error) { return c.via.ReadFrom(r) }

// WriteTo writes to w what comes until the end of the peer's stream, and returns how many
// bytes that were.
func (c *Conn) WriteTo(w io.Writer) (int64, error) { return c.via.WriteTo(w) }

// Close closes the connection as TCP does: what was written is still delivered, unless
// SetLinger says otherwise. Over RDMA the process itself does that, and not the system. So
// Close waits until the peer has the data, for up to 100 ms, which is enough for one that
// runs; then it returns, and a peer that does not take the data has Config.Linger for it. A
// program that ends after that calls Drain of its Dialer or Listener before. Up to 1024
// closes of a Dialer, or of a Listener, go on in the background; beyond that Close waits
// longer. A second Close fails with net.ErrClosed (wrapped).
func (c *Conn) Close() error { return c.via.Close() }

// CloseRead ends reading; what arrives from then on is dropped.
func (c *Conn) CloseRead() error { return c.via.CloseRead() }

// CloseWrite ends this side's stream; the peer reads io.EOF after what was written.
func (c *Conn) CloseWrite() error { return c.via.CloseWrite() }

// LocalAddr is this side's address, a *net.TCPAddr. Over a fabric without ports the one who
// dialed has a number for its port that only tells connections apart.
func (c *Conn) LocalAddr() net.Addr { return c.via.LocalAddr() }

// RemoteAddr is the peer's address, a *net.TCPAddr; see LocalAddr.
func (c *Conn) RemoteAddr() net.Addr { return c.via.RemoteAddr() }

// SetDeadline sets both deadlines, as net.Conn says.
func (c *Conn) SetDeadline(t time.Time) error { return c.via.SetDeadline(t) }

// SetReadDeadline sets the deadline of Read, ReadUrgent and WriteTo.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.via.SetReadDeadline(t) }

// SetWriteDeadline sets the deadline of Write, WriteUrgent and ReadFrom.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.via.SetWriteDeadline(t) }

// SetNoDelay tells TCP whether to send small data at once, which is the default. RDMA
// always does.
func (c *Conn) SetNoDelay(noDelay bool) error { return c.via.SetNoDelay(noDelay) }

// SetLinger says what Close does with data that is not yet delivered, as
// net.TCPConn.SetLinger does: with 0 seconds it breaks off, and the peer sees a reset; with
// more it waits for so long until the peer has the data; with less it goes on in the
// background, which is the default.
func (c *Conn) SetLinger(sec int) error { return c.via.SetLinger(sec) }

// SyscallConn gives the socket of a connection over TCP.
//
// Errors: errors.ErrUnsupported (wrapped) over RDMA, which has none.
func (c *Conn) SyscallConn() (syscall.RawConn, error) { return c.via.SyscallConn() }

// WriteUrgent sends p beside the stream, for the peer's ReadUrgent.
//
// Errors: as Write has; errors.ErrUnsupported (wrapped) over TCP, whose urgent data is a
// single byte of the stream, and is read as one if the peer does not ask for it in time.
//
// Source: [WSD §5.5]
func (c *Conn) WriteUrgent(p []byte) (int, error) { return c.via.WriteUrgent(p) }

// ReadUrgent waits for urgent data and reads it.
//
// Errors: as Read has; errors.ErrUnsupported (wrapped) over TCP.
//
// Source: [WSD §5.5]
func (c *Conn) ReadUrgent(p []byte) (int, error) { return c.via.ReadUrgent(p) }

// Stats counts what the connection did over RDMA; all is 0 over TCP.
func (c *Conn) Stats() Stats { return c.via.Stats() }

// Stats counts what a connection did over RDMA.
type Stats struct {
	// BytesRead and BytesWritten are what Read and Write moved, in bytes.
	BytesRead, BytesWritten uint64
	// RDMARead and RDMAWritten are the parts of it that were moved by RDMA.
	RDMARead, RDMAWritten uint64
	// MessagesReceived and MessagesSent are control messages.
	MessagesReceived, MessagesSent uint64
	// Held is how often a message could not be sent at once, for want of a credit or a
	// buffer.
	Held uint64
	// UrgentDropped is urgent data that nobody read in time, in bytes.
	UrgentDropped uint64
}
