package kerberos

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/jcmturner/gokrb5/v8/config"
	"github.com/jcmturner/gokrb5/v8/iana/errorcode"
	"github.com/jcmturner/gokrb5/v8/messages"
)

// Bounds of an exchange with a KDC, whose bytes are not authentic before they are decrypted.
const (
	// maxReply is the largest reply, in bytes. A ticket with the groups of a user has less.
	maxReply = 128 << 10
	// kdcTimeout bounds the exchange with one address over one transport.
	kdcTimeout = 5 * time.Second
)

// sendToKDC sends a request to the KDCs of a realm, in turn until one replies. Short requests go over UDP
// first, as the configuration says. An error message of a KDC is an error, messages.KRBError.
//
// Source: [RFC 4120 §7.2]
func sendToKDC(ctx context.Context, cfg *config.Config, realm string, request []byte) ([]byte, error) {
	var failed error
	if limit := cfg.LibDefaults.UDPPreferenceLimit; limit != 1 && len(request) <= limit {
		reply, err := trySend(ctx, cfg, realm, "udp", request)
		var refused messages.KRBError
		if err == nil || errors.As(err, &refused) && refused.ErrorCode != errorcode.KRB_ERR_RESPONSE_TOO_BIG || ctx.Err() != nil {
			return reply, err
		}
		failed = err
	}
	reply, err := trySend(ctx, cfg, realm, "tcp", request)
	if err != nil && failed != nil {
		err = fmt.Errorf("%w, after %v", err, failed) //nolint:errorlint // the last transport decides
	}
	return reply, err
}

// trySend sends a request over one transport.
func trySend(ctx context.Context, cfg *config.Config, realm, network string, request []byte) ([]byte, error) {
	_, kdcs, err := cfg.GetKDCs(realm, network == "tcp")
	if err != nil {
		return nil, err
	}
	failed := make([]error, 0, len(kdcs))
	for i := 1; i <= len(kdcs); i++ { // by preference
		reply, err := exchangeWithKDC(ctx, network, kdcs[i], request)
		if err == nil {
			var refused messages.KRBError
			if refused.Unmarshal(reply) == nil {
				return nil, refused
			}
			return reply, nil
		}
		failed = append(failed, fmt.Errorf("KDC %s over %s: %w", kdcs[i], network, err))
		if ctx.Err() != nil {
			break
		}
	}
	return nil, errors.Join(failed...)
}

// exchangeWithKDC sends a request to one address and returns the reply.
func exchangeWithKDC(ctx context.Context, network, addr string, request []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, kdcTimeout)
	defer cancel()
	nc, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	defer nc.Close()
	defer context.AfterFunc(ctx, func() { nc.Close() })()
	if network == "tcp" {
		request = append(binary.BigEndian.AppendUint32(nil, uint32(len(request))), request...)
	}
	if _, err := nc.Write(request); err != nil {
		return nil, errors.Join(ctx.Err(), err)
	}
	reply, err := readReply(nc, network)
	if err != nil {
		return nil, errors.Join(ctx.Err(), err)
	}
	return reply, nil
}

// readReply reads one reply of at most maxReply bytes. Memory is taken only for bytes that arrive.
func readReply(r io.Reader, network string) ([]byte, error) {
	if network == "udp" {
		b := make([]byte, 64<<10)
		n, err := r.Read(b)
		return b[:n], err
	}
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n == 0 || n > maxReply {
		return nil, fmt.Errorf("a reply of %d bytes, limit %d", n, maxReply)
	}
	b, err := io.ReadAll(io.LimitReader(r, int64(n)))
	if err == nil && len(b) < int(n) {
		err = io.ErrUnexpectedEOF
	}
	return b, err
}
