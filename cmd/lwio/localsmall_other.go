//go:build !unix

package main

import (
	"context"
	"errors"
	"io"

	"lwio"
)

// ReadSmall reads a regular file, as Open does.
func (t localTree) ReadSmall(ctx context.Context, name string, p []byte) (n int, whole bool, err error) {
	src, err := t.Open(ctx, name)
	if err != nil {
		return 0, false, err
	}
	defer func() { _ = src.Close(err) }() // it was only read
	if n, err = src.ReadChunk(ctx, p, 0); errors.Is(err, io.EOF) {
		return n, true, nil
	}
	return n, false, err
}

// WriteSmall writes a temporary file and renames it.
func (t localTree) WriteSmall(ctx context.Context, name string, data []byte, a *attributes) error {
	out, err := t.Create(ctx, name)
	if err != nil {
		return err
	}
	if err = out.WriteChunk(ctx, data, 0); err == nil {
		err = out.Commit(ctx)
	}
	if err = errors.Join(err, out.Abort(err)); err == nil && a != nil {
		if err = t.Keep(ctx, name, *a); err != nil {
			err = errors.Join(err, lwio.ErrUncertain) // the file has its content
		}
	}
	return err
}
