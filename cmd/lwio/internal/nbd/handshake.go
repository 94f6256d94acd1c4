package nbd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"

	"lwio/cmd/lwio/internal/nbd/nbdwire"
)

// The limits of a handshake. Its time is bounded too, see Config.HandshakeTimeout.
const (
	maxOptions    = 64
	maxOption     = 32 << 10 // bytes of data of one option
	maxSkipOption = 1 << 20  // bytes of data that are skipped because they are more
)

// errLeft is the end of a handshake by the client.
var errLeft = errors.New("the client left")

// handshake is a connection until its client has chosen an export.
type handshake struct {
	server *Server
	conn   net.Conn // TLS after OptStartTLS
	secure bool

	zeroes     bool // pad the answer to OptExportName
	structured bool
	out        []byte // replies that are not written yet
}

// run negotiates. It returns the chosen export.
//
// Errors: errLeft; the error of the connection; nbdwire.ErrMalformed.
//
// Source: [NBD §Fixed newstyle negotiation]
func (h *handshake) run(ctx context.Context) (*Export, error) {
	offered := nbdwire.FixedNewstyle | nbdwire.NoZeroes
	if _, err := h.conn.Write(nbdwire.AppendGreeting(nil, offered)); err != nil {
		return nil, err
	}
	b := make([]byte, maxOption)
	if _, err := io.ReadFull(h.conn, b[:nbdwire.ClientFlagsSize]); err != nil {
		return nil, left(err)
	}
	flags, err := nbdwire.DecodeClientFlags(b[:nbdwire.ClientFlagsSize], offered)
	if err != nil {
		return nil, err
	}
	h.zeroes = flags&nbdwire.NoZeroes == 0
	for range maxOptions {
		o, err := h.next(b)
		if err != nil {
			return nil, err
		}
		e, err := h.option(ctx, o, b[:min(o.Length, maxOption)])
		if len(h.out) > 0 && (err == nil || errors.Is(err, errLeft)) {
			if _, err := h.conn.Write(h.out); err != nil {
				return nil, err
			}
			h.out = h.out[:0]
		}
		if e != nil || err != nil {
			return e, err
		}
	}
	return nil, fmt.Errorf("%w: more than %d options", nbdwire.ErrMalformed, maxOptions)
}

// left is the error of a read between two messages.
func left(err error) error {
	if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return errLeft
	}
	return err
}

// next reads an option: its header, and up to maxOption bytes of its data into b.
func (h *handshake) next(b []byte) (o nbdwire.OptionHeader, err error) {
	if _, err := io.ReadFull(h.conn, b[:nbdwire.OptionHeaderSize]); err != nil {
		return o, left(err)
	}
	if o, err = nbdwire.DecodeOptionHeader(b[:nbdwire.OptionHeaderSize]); err != nil {
		return o, err
	}
	if o.Length > maxSkipOption {
		return o, fmt.Errorf("%w: %d bytes of data of %v", nbdwire.ErrMalformed, o.Length, o.Option)
	}
	if _, err := io.ReadFull(h.conn, b[:min(o.Length, maxOption)]); err != nil {
		return o, err
	}
	if o.Length > maxOption {
		_, err = io.CopyN(io.Discard, h.conn, int64(o.Length-maxOption))
	}
	return o, err
}

// reply adds a reply to those that run writes.
func (h *handshake) reply(o nbdwire.Option, r nbdwire.OptionReply, data []byte) {
	h.out = nbdwire.AppendOptionReply(h.out, o, r, data)
}

// refuse adds an error with a text.
func (h *handshake) refuse(o nbdwire.Option, r nbdwire.OptionReply, text string) {
	h.reply(o, r, []byte(text))
}

// option serves an option. It returns an export if the transmission begins.
//
// Source: [NBD §Option types], [NBD §TLS support]
func (h *handshake) option(ctx context.Context, o nbdwire.OptionHeader, data []byte) (*Export, error) {
	needsTLS := h.server.cfg.TLS != nil && !h.secure && o.Option != nbdwire.OptStartTLS && o.Option != nbdwire.OptAbort
	switch {
	case o.Option == nbdwire.OptExportName:
		return h.exportName(data, o.Length > maxOption || needsTLS || ctx.Err() != nil)
	case ctx.Err() != nil && o.Option != nbdwire.OptAbort:
		h.refuse(o.Option, nbdwire.RepErrShutdown, "the server is being shut down")
	case needsTLS:
		h.refuse(o.Option, nbdwire.RepErrTLSReqd, "TLS is required")
	case o.Length > maxOption:
		h.refuse(o.Option, nbdwire.RepErrTooBig, fmt.Sprintf("%d bytes where %d are allowed", o.Length, maxOption))
	case o.Option == nbdwire.OptInfo || o.Option == nbdwire.OptGo:
		return h.info(o.Option, data), nil
	case o.Option == nbdwire.OptListMetaContext || o.Option == nbdwire.OptSetMetaContext:
		h.metaContext(o.Option, data)
	case o.Option == nbdwire.OptAbort:
		h.reply(o.Option, nbdwire.RepAck, nil)
		return nil, errLeft
	case o.Option != nbdwire.OptList && o.Option != nbdwire.OptStartTLS && o.Option != nbdwire.OptStructuredReply:
		h.refuse(o.Option, nbdwire.RepErrUnsup, o.Option.String()+" is not supported")
	case len(data) > 0:
		h.refuse(o.Option, nbdwire.RepErrInvalid, o.Option.String()+" has no data")
	case o.Option == nbdwire.OptList:
		for _, e := range h.server.cfg.Exports {
			h.reply(o.Option, nbdwire.RepServer, nbdwire.AppendServer(nil, e.cfg.Name, e.cfg.Description))
		}
		h.reply(o.Option, nbdwire.RepAck, nil)
	case o.Option == nbdwire.OptStartTLS:
		return nil, h.startTLS(ctx)
	default:
		h.structured = true
		h.reply(o.Option, nbdwire.RepAck, nil)
	}
	return nil, nil
}

// exportName serves OptExportName, which has no error: the connection ends.
//
// Source: [NBD §Newstyle negotiation]
func (h *handshake) exportName(data []byte, refused bool) (*Export, error) {
	e := h.server.export(string(data))
	if refused || e == nil {
		return nil, fmt.Errorf("nbd: the client chose the export %.64q, which it cannot have", data)
	}
	h.out = nbdwire.AppendExport(h.out, e.size, e.flags(h.structured), h.zeroes)
	return e, nil
}

// info serves OptInfo and OptGo. It returns the export for a successful OptGo.
//
// Source: [NBD §Option types]
func (h *handshake) info(o nbdwire.Option, data []byte) *Export {
	r, err := nbdwire.DecodeInfoRequest(data)
	if err != nil {
		h.refuse(o, nbdwire.RepErrInvalid, err.Error())
		return nil
	}
	e := h.server.export(r.Name)
	if e == nil {
		h.refuse(o, nbdwire.RepErrUnknown, "there is no such export")
		return nil
	}
	h.reply(o, nbdwire.RepInfo, nbdwire.AppendInfoExport(nil, e.size, e.flags(h.structured)))
	h.reply(o, nbdwire.RepInfo, blockSizes.AppendTo(nil))
	if slices.Contains(r.Infos, nbdwire.InfoName) {
		h.reply(o, nbdwire.RepInfo, nbdwire.AppendInfoText(nil, nbdwire.InfoName, e.cfg.Name))
	}
	if slices.Contains(r.Infos, nbdwire.InfoDescription) && e.cfg.Description != "" {
		h.reply(o, nbdwire.RepInfo, nbdwire.AppendInfoText(nil, nbdwire.InfoDescription, e.cfg.Description))
	}
	h.reply(o, nbdwire.RepAck, nil)
	if o == nbdwire.OptInfo {
		return nil
	}
	return e
}

// metaContext serves OptListMetaContext and OptSetMetaContext. There is no metadata context, because a share does not
// tell holes from data: the list is empty, and CmdBlockStatus is not offered.
//
// Source: [NBD §Metadata querying]
func (h *handshake) metaContext(o nbdwire.Option, data []byte) {
	q, err := nbdwire.DecodeMetaQuery(data)
	switch {
	case err != nil:
		h.refuse(o, nbdwire.RepErrInvalid, err.Error())
	case !h.structured:
		h.refuse(o, nbdwire.RepErrInvalid, "metadata contexts need structured replies")
	case h.server.export(q.Name) == nil:
		h.refuse(o, nbdwire.RepErrUnknown, "there is no such export")
	default:
		h.reply(o, nbdwire.RepAck, nil)
	}
}

// startTLS serves OptStartTLS. Options before it do not count any more: an attacker between both sides may have
// sent them.
//
// Source: [NBD §TLS support]
func (h *handshake) startTLS(ctx context.Context) error {
	switch {
	case h.server.cfg.TLS == nil:
		h.refuse(nbdwire.OptStartTLS, nbdwire.RepErrPolicy, "the server has no certificate")
		return nil
	case h.secure:
		h.refuse(nbdwire.OptStartTLS, nbdwire.RepErrInvalid, "the connection has TLS")
		return nil
	}
	if _, err := h.conn.Write(nbdwire.AppendOptionReply(nil, nbdwire.OptStartTLS, nbdwire.RepAck, nil)); err != nil {
		return err
	}
	c := tls.Server(h.conn, h.server.cfg.TLS)
	if err := c.HandshakeContext(ctx); err != nil {
		return fmt.Errorf("nbd: TLS: %w", err)
	}
	h.conn, h.secure, h.structured = c, true, false
	return nil
}
