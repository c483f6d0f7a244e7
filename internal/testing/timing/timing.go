// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package timing is how tests say what API servers cost them, and how whoever ran
// them reads it.
package timing

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"
)

// Variable names the file to which tests append what API servers cost them: a Timing a
// line, as JSON. If it is not set, nothing is measured. The file has to be outside of
// the module, lest Go takes it for an input of the tests whose results it keeps.
const Variable = "CAPSTAN_TEST_TIMINGS"

// ServerStep is what is measured of an API server.
type ServerStep string

// The steps of an API server's life in a test.
const (
	Start       ServerStep = "start"
	Definitions ServerStep = "definitions"
	Reset       ServerStep = "reset"
	Stop        ServerStep = "stop"
)

// AllSteps returns all steps, in their order.
func AllSteps() []ServerStep { return []ServerStep{Start, Definitions, Reset, Stop} }

// Timing is how long a step of an API server took a test.
type Timing struct {
	// Folder has the package of the test.
	Folder  string     `json:"folder"`
	Test    string     `json:"test"`
	Step    ServerStep `json:"step"`
	Seconds float64    `json:"seconds"`
}

// RecordStep appends a Timing of a step that a test has begun at a time and ends now. That
// it cannot is no failure of the test: who reads the timings finds it missing.
func RecordStep(test string, step ServerStep, begun time.Time) {
	path := os.Getenv(Variable)
	if path == "" {
		return
	}
	folder, err := os.Getwd()
	if err != nil {
		return
	}
	line, err := json.Marshal(Timing{Folder: folder, Test: test, Step: step, Seconds: time.Since(begun).Seconds()})
	if err != nil {
		return
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600) //nolint:gosec // who runs tests says where
	if err != nil {
		return
	}
	_, _ = file.Write(append(line, '\n')) // in one piece, as several packages test at a time
	_ = file.Close()
}

// ReadTimings returns what tests have appended to a file; nothing if none has.
func ReadTimings(path string) ([]Timing, error) {
	file, err := os.Open(path) //nolint:gosec // who runs tests says where
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading what API servers cost: %w", err)
	}
	defer file.Close() //nolint:errcheck // it was only read
	var all []Timing
	for decoder := json.NewDecoder(file); ; {
		var t Timing
		switch err := decoder.Decode(&t); {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return nil, fmt.Errorf("reading what API servers cost from %s: %w", path, err)
		}
		all = append(all, t)
	}
}
