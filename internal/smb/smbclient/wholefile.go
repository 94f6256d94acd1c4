package smbclient

import (
	"context"
	"fmt"
	"slices"

	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbwire"
)

// WholeFile is a file that WriteWhole writes.
type WholeFile struct {
	// Name is the name of the file, and Temporary one in the same directory that no file has.
	Name, Temporary string
	// Data has at most MaxSmall bytes.
	Data []byte
	// Basic are times and attributes of the file; the zero value sets none.
	Basic Basic
}

// Values of Tree.whole.
const (
	wholeUnknown = iota
	wholeKnown
	wholeRefused
)

// wholeContext asks the server to execute a message up to its first failure, and to delete a file that it makes unless
// it is renamed.
var wholeContext = smbwire.CreateContext{Name: smbwire.CreateContextWhole}

// hasWhole reports whether the server grants wholeContext.
func hasWhole(list []smbwire.CreateContext) bool {
	return slices.ContainsFunc(list, func(x smbwire.CreateContext) bool { return x.Name == smbwire.CreateContextWhole })
}

// WritesWhole reports whether the server has WriteWhole. It asks the server once, in one round trip.
func (t *Tree) WritesWhole(ctx context.Context) (bool, error) {
	if known := t.whole.Load(); known != wholeUnknown {
		return known == wholeKnown, nil
	}
	q := &CreateRequest{Access: accessReadAttributes | accessSynchronize, Share: shareAll, Disposition: dispositionOpen}
	w, err := q.wire(t)
	if err != nil {
		return false, err
	}
	w.Contexts = append(w.Contexts, wholeContext)
	f := File{t: t}
	steps := []step{t.createStep(q, w, &f), t.closeStep(smbwire.RelatedFileID)}
	err = t.s.conn.renewing(ctx, func() (*pending, error) {
		first, _, err := t.s.conn.exchangeAll(ctx, steps)
		return first, err
	})
	switch {
	case err != nil && !Refused(err):
		return false, timely(err)
	case err != nil || !f.whole:
		t.whole.Store(wholeRefused)
		return false, nil
	}
	t.whole.Store(wholeKnown)
	return true, nil
}

// WriteWhole writes a file under its temporary name, and gives it its name in place of another file, in one round trip.
// After a refusal the name stands for the same file as before, and there is none of the temporary name.
// Precondition: WritesWhole has returned true.
//
// Errors: as Create and Rename; ErrUnknownOutcome with the cause if it may be written nevertheless.
//
// Source: [MS-SMB2 3.2.4.1.4]
func (t *Tree) WriteWhole(ctx context.Context, file WholeFile) error {
	q := &CreateRequest{
		Name: file.Temporary, Access: accessWriteData | accessDelete | accessWriteAttributes | accessReadAttributes | accessSynchronize,
		Share: shareAll, Disposition: dispositionCreate, Options: optionNonDirectory,
	}
	w, err := q.wire(t)
	if err != nil {
		return err
	}
	rename, err := renameTo(file.Name, true)
	switch {
	case err != nil:
		return err
	case len(file.Data) > t.MaxSmall():
		return ntstatus.InvalidParameter
	}
	w.Contexts = append(w.Contexts, wholeContext)
	var f File
	steps := []step{t.createWhole(t.createStep(q, w, &f), &f)}
	if len(file.Data) > 0 {
		steps = append(steps, t.writeStep(smbwire.RelatedFileID, file.Data))
	}
	if file.Basic != (Basic{}) {
		steps = append(steps, t.setStep(smbwire.RelatedFileID, file.Basic.change()))
	}
	steps = append(steps, t.setStep(smbwire.RelatedFileID, rename), t.closeStep(smbwire.RelatedFileID))
	return timely(t.changeAll(ctx, steps))
}

// createWhole is a step that opens f, and fails if the server does not stop at a failure.
func (t *Tree) createWhole(s step, f *File) step {
	take := s.done
	s.done = func(r *response) error {
		if err := take(r); err != nil {
			return err
		}
		if !f.whole {
			return fmt.Errorf("%w: a whole file is written in parts", ErrProtocol)
		}
		return nil
	}
	return s
}
