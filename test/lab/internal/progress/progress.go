// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package progress tells a user what is being done.
package progress

import (
	"io"
	"log"
	"time"
)

// Progress tells a user what has been done: one line for each step, with the
// time that has passed since the first could have been.
type Progress struct {
	logger *log.Logger
	began  time.Time
}

// New returns a progress that is written to w and begins now.
func New(w io.Writer) *Progress {
	return &Progress{logger: log.New(w, "", 0), began: time.Now()}
}

// Step writes a line. It may be called by several goroutines.
func (p *Progress) Step(format string, args ...any) {
	p.logger.Printf("[%5.1f s] "+format, append([]any{time.Since(p.began).Seconds()}, args...)...)
}
