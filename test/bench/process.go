// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// ticksPerSecond is the unit of CPU times in /proc; it is 100 on every Linux
// that Go runs on.
const ticksPerSecond = 100

// process is a program of Capstan that runs on this machine.
type process struct {
	name string
	cmd  *exec.Cmd
	log  *os.File
}

// start starts the executable with its output in dir/NAME.log.
func start(ctx context.Context, dir, name, executable string, args []string) (*process, error) {
	log, err := os.Create(filepath.Join(dir, name+".log"))
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, executable, args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	// An agent that outlives a killed benchmark would go on writing.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	return &process{name: name, cmd: cmd, log: log}, nil
}

// stop ends the process and waits for it.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	_ = p.cmd.Wait()                          // the signal is its exit status
	_ = p.log.Close()
}

// usage is what a process has used and uses.
type usage struct {
	CPUSeconds float64 `json:"cpuSeconds"`
	// RSSMiB is all resident memory. AnonMiB leaves out the pages of the
	// executable, which the processes share.
	RSSMiB  float64 `json:"rssMiB"`
	AnonMiB float64 `json:"anonMiB"`
}

// usage reads the counters of the process.
func (p *process) usage() (usage, error) {
	proc := filepath.Join("/proc", strconv.Itoa(p.cmd.Process.Pid))
	stat, err := os.ReadFile(filepath.Join(proc, "stat"))
	if err != nil {
		return usage{}, fmt.Errorf("%s has ended (see %s): %w", p.name, p.log.Name(), err)
	}
	// The name in parentheses may have spaces; the fields count from behind it.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	user, userErr := strconv.ParseFloat(fields[11], 64)
	system, systemErr := strconv.ParseFloat(fields[12], 64)
	if userErr != nil || systemErr != nil {
		return usage{}, fmt.Errorf("reading the CPU time of %s from %q", p.name, stat)
	}
	status, err := os.ReadFile(filepath.Join(proc, "status"))
	if err != nil {
		return usage{}, err
	}
	return usage{
		CPUSeconds: (user + system) / ticksPerSecond,
		RSSMiB:     kibibytes(string(status), "VmRSS:") / 1024,
		AnonMiB:    kibibytes(string(status), "RssAnon:") / 1024,
	}, nil
}

func kibibytes(status, key string) float64 {
	for line := range strings.SplitSeq(status, "\n") {
		if rest, ok := strings.CutPrefix(line, key); ok {
			value, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			if err == nil {
				return value
			}
		}
	}
	return 0
}

// total adds up the usage of processes.
func total(processes []*process) (usage, error) {
	var sum usage
	for _, p := range processes {
		u, err := p.usage()
		if err != nil {
			return usage{}, err
		}
		sum.CPUSeconds += u.CPUSeconds
		sum.RSSMiB += u.RSSMiB
		sum.AnonMiB += u.AnonMiB
	}
	return sum, nil
}
