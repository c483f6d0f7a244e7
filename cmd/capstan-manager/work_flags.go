// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/agent/work"
	"github.com/capstan-io/capstan/internal/manifestwork/feedback"
	"github.com/capstan-io/capstan/internal/server/features"
	"github.com/capstan-io/capstan/internal/server/metrics"
)

// sourceKube is the one way that works come from the hub.
const sourceKube = "kube"

// workFlags are how an agent applies works, whether or not it does more.
type workFlags struct {
	source             string
	statusSyncInterval time.Duration
	evictionGrace      time.Duration
	maxFeedbackWatch   int
	maxJSONRaw         int
}

func defaultWorkFlags() workFlags {
	return workFlags{
		source: sourceKube, statusSyncInterval: work.DefaultStatusSyncInterval, evictionGrace: work.DefaultEvictionGracePeriod,
		maxFeedbackWatch: work.DefaultMaxFeedbackWatch, maxJSONRaw: workv1.JSONRawSizeMax,
	}
}

func (f *workFlags) addWorkFlags(fs *pflag.FlagSet) {
	fs.StringVar(&f.source, "workload-source-driver", f.source, "way that works come from the hub; there is kube")
	fs.DurationVar(&f.statusSyncInterval, "status-sync-interval", f.statusSyncInterval, "time between looks at objects that are not watched")
	fs.DurationVar(&f.evictionGrace, "appliedmanifestwork-eviction-grace-period", f.evictionGrace,
		"time that objects of a work stay after it vanished without a deletion; 100 years or more is for ever")
	fs.IntVar(&f.maxFeedbackWatch, "max-feedback-watch", f.maxFeedbackWatch,
		"number of objects with updateStrategy ReadOnly that are watched for feedbackScrapeType Watch; the others are polled")
	fs.IntVar(&f.maxJSONRaw, "max-json-raw-length", f.maxJSONRaw,
		"number of bytes that a reported list or object may have as JSON, with feature gate RawFeedbackJsonString; at most 1024")
}

// checkWorkFlags returns an error for flags that cannot be followed.
func (f *workFlags) checkWorkFlags() error {
	switch {
	case f.source != "" && f.source != sourceKube:
		return fmt.Errorf("--workload-source-driver: %q is not supported; there is %q", f.source, sourceKube)
	case f.statusSyncInterval <= 0:
		return fmt.Errorf("--status-sync-interval: %s is not more than 0", f.statusSyncInterval)
	case f.maxFeedbackWatch < 0:
		return fmt.Errorf("--max-feedback-watch: %d is less than 0", f.maxFeedbackWatch)
	case f.maxJSONRaw < 1 || f.maxJSONRaw > workv1.JSONRawSizeMax:
		return fmt.Errorf("--max-json-raw-length: %d is not from 1 to %d", f.maxJSONRaw, workv1.JSONRawSizeMax)
	}
	return nil
}

// workPartOptions returns those of the part for works. Only what is in the flags of
// feature gates for works counts of these.
func (f *workFlags) workPartOptions(logger logr.Logger, gateFlags []string) (work.PartOptions, error) {
	if err := f.checkWorkFlags(); err != nil {
		return work.PartOptions{}, err
	}
	gates, err := parseGatesOf(features.AgentWork, gateFlags)
	if err != nil {
		return work.PartOptions{}, err
	}
	watched := f.maxFeedbackWatch
	if watched == 0 {
		watched = -1 // 0 is the default there
	}
	return work.PartOptions{
		Logger: logger.WithName("work"), StatusSyncInterval: f.statusSyncInterval, EvictionGracePeriod: f.evictionGrace,
		KeepExecutorDecisions: gates.Enabled(features.ExecutorValidatingCaches),
		Feedback:              feedback.ValueOptions{RawJSON: gates.Enabled(features.RawFeedbackJSONString), MaxRawJSON: f.maxJSONRaw},
		MaxFeedbackWatch:      watched, Health: gates.Enabled(features.ReportHealth),
	}, nil
}

// withTracer returns the options with deliveries traced if the environment asks for it, for
// as long as the process runs.
func withTracer(o work.PartOptions) work.PartOptions {
	o.Tracer = startTracer(o.Logger, "agent", os.Getenv)
	return o
}

// newWorkPart returns the part for works, whose metrics are in the group.
func newWorkPart(o work.PartOptions, group *metrics.CollectorGroup) (*work.ManifestWorkPart, error) {
	part, err := work.NewManifestWorkPart(o)
	if err != nil {
		return nil, err
	}
	if err := group.RegisterAll(part.MetricCollectors()...); err != nil {
		return nil, fmt.Errorf("works: %w", err)
	}
	return part, nil
}
