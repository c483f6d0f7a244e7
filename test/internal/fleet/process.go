// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

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

// Program is what a process runs.
type Program struct {
	// Name is that of the log, without its suffix.
	Name       string
	Executable string
	Args       []string
	// Env is added to the environment of this process.
	Env []string
}

// Process is a program that runs on this machine.
type Process struct {
	program Program
	cmd     *exec.Cmd
	log     *os.File
	done    chan struct{}
}

// Start starts the program with its output at the end of dir/NAME.log. It is
// stopped when ctx ends.
func Start(ctx context.Context, dir string, program Program) (*Process, error) {
	log, err := os.OpenFile(filepath.Join(dir, program.Name+".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, program.Executable, program.Args...)
	cmd.Env = append(os.Environ(), program.Env...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	// An agent that outlives a killed benchmark would go on writing.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		_ = log.Close()
		return nil, fmt.Errorf("starting %s: %w", program.Name, err)
	}
	p := &Process{program: program, cmd: cmd, log: log, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		_ = cmd.Wait() // the signal is its exit status
		_ = log.Close()
	}()
	return p, nil
}

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Stop ends the process and waits for it.
func (p *Process) Stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	<-p.done
}

// Kill ends the process at once, as a crash of the machine does, and waits for it.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// Usage is what a process has used and uses.
type Usage struct {
	CPUSeconds float64 `json:"cpuSeconds"`
	// RSSMiB is all resident memory. AnonMiB leaves out the pages of the
	// executable, which the processes share.
	RSSMiB  float64 `json:"rssMiB"`
	AnonMiB float64 `json:"anonMiB"`
}

// Usage reads the counters of the process.
func (p *Process) Usage() (Usage, error) {
	usage, err := UsageOf(p.cmd.Process.Pid)
	if err != nil {
		return Usage{}, fmt.Errorf("%s has ended (see %s): %w", p.program.Name, p.log.Name(), err)
	}
	return usage, nil
}

// UsageOf reads the counters of any process of this machine.
func UsageOf(pid int) (Usage, error) {
	proc := filepath.Join("/proc", strconv.Itoa(pid))
	stat, err := os.ReadFile(filepath.Join(proc, "stat"))
	if err != nil {
		return Usage{}, fmt.Errorf("read the CPU time of process %d: %w", pid, err)
	}
	// The name in parentheses may have spaces; the fields count from behind it.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	user, userErr := strconv.ParseFloat(fields[11], 64)
	system, systemErr := strconv.ParseFloat(fields[12], 64)
	if userErr != nil || systemErr != nil {
		return Usage{}, fmt.Errorf("reading the CPU time of process %d from %q", pid, stat)
	}
	status, err := os.ReadFile(filepath.Join(proc, "status"))
	if err != nil {
		return Usage{}, fmt.Errorf("read the memory of process %d: %w", pid, err)
	}
	return Usage{
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

// Total adds up the usage of processes.
func Total(processes []*Process) (Usage, error) {
	var sum Usage
	for _, p := range processes {
		u, err := p.Usage()
		if err != nil {
			return Usage{}, err
		}
		sum.CPUSeconds += u.CPUSeconds
		sum.RSSMiB += u.RSSMiB
		sum.AnonMiB += u.AnonMiB
	}
	return sum, nil
}
