// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
)

// Snapshot is read as a file that etcdutl restores: the database of a member, and
// then its SHA-256. Whoever reads it gets io.EOF only if all of it has come and
// is what was sent.
type Snapshot struct {
	// Size is how many bytes there are.
	Size int64

	body     io.ReadCloser
	messages *json.Decoder
	// pending has come and was not read yet, and read is what was.
	pending []byte
	read    int64
	// sum is that of the database, and trailer what the member says it is.
	sum     hash.Hash
	trailer []byte
}

// snapshotMessage is one of those that a snapshot comes in.
type snapshotMessage struct {
	Result struct {
		RemainingBytes int64  `json:"remaining_bytes,string"`
		Blob           []byte `json:"blob"`
	} `json:"result"`
	Error struct {
		Message string `json:"message"`
	} `json:"error"`
}

// OpenSnapshot begins to copy what the member stores. It ends with the context.
func (c *MemberClient) OpenSnapshot(ctx context.Context) (*Snapshot, error) {
	body, err := c.postRequest(ctx, "/v3/maintenance/snapshot", "{}")
	if err != nil {
		return nil, err
	}
	s := &Snapshot{body: body, messages: json.NewDecoder(body), sum: sha256.New()}
	remaining, err := s.nextMessage()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("beginning a snapshot of etcd: %w", err), body.Close())
	}
	s.Size = int64(len(s.pending)) + remaining + sha256.Size
	return s, nil
}

// nextMessage reads the next message, and returns how much of the database follows it.
func (s *Snapshot) nextMessage() (int64, error) {
	m := snapshotMessage{}
	if err := s.messages.Decode(&m); err != nil {
		return 0, err
	}
	if m.Error.Message != "" {
		return 0, errors.New(m.Error.Message)
	}
	s.pending = m.Result.Blob
	return m.Result.RemainingBytes, nil
}

// Read is that of an io.Reader.
func (s *Snapshot) Read(p []byte) (int, error) {
	for len(s.pending) == 0 {
		_, err := s.nextMessage()
		switch {
		case errors.Is(err, io.EOF):
			return 0, s.verifyEnd()
		case err != nil:
			return 0, fmt.Errorf("copying a snapshot of etcd, of which %d of %d bytes have come: %w", s.read, s.Size, err)
		}
	}
	n := copy(p, s.pending)
	database := min(int64(n), max(0, s.Size-sha256.Size-s.read))
	s.sum.Write(s.pending[:database])
	s.trailer = append(s.trailer, s.pending[database:n]...)
	s.pending, s.read = s.pending[n:], s.read+int64(n)
	if s.read > s.Size {
		return 0, fmt.Errorf("copying a snapshot of etcd: more than %d bytes have come, which it announced", s.Size)
	}
	return n, nil
}

// verifyEnd reports whether all has come.
func (s *Snapshot) verifyEnd() error {
	switch {
	case s.read != s.Size:
		return fmt.Errorf("copying a snapshot of etcd: it ended after %d of %d bytes", s.read, s.Size)
	case !bytes.Equal(s.sum.Sum(nil), s.trailer):
		return errors.New("copying a snapshot of etcd: what has come is not what was sent, its checksums differ")
	}
	return io.EOF
}

// Close ends the copy.
func (s *Snapshot) Close() error { return s.body.Close() }
