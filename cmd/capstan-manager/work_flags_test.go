// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/spf13/pflag"

	"github.com/capstan-io/capstan/internal/agent/work"
	"github.com/capstan-io/capstan/internal/manifestwork/feedback"
)

func TestAgentsApplyWorksAsTheFlagsSay(t *testing.T) {
	for reason, test := range map[string]struct {
		flags, gates []string
		want         work.PartOptions
		wantErr      bool
	}{
		"the defaults": {
			want: work.PartOptions{
				StatusSyncInterval: 10 * time.Second, EvictionGracePeriod: time.Hour, MaxFeedbackWatch: 50,
				Feedback: feedback.ValueOptions{MaxRawJSON: 1024},
			},
		},
		"gates and limits of feedback": {
			flags: []string{"--max-feedback-watch=0", "--max-json-raw-length=100", "--status-sync-interval=1m"},
			gates: []string{"RawFeedbackJsonString=true", "ReportHealth=true", "ClusterClaim=false"},
			want: work.PartOptions{
				StatusSyncInterval: time.Minute, EvictionGracePeriod: time.Hour, MaxFeedbackWatch: -1, Health: true,
				Feedback: feedback.ValueOptions{RawJSON: true, MaxRawJSON: 100},
			},
		},
		"more JSON than the API takes": {flags: []string{"--max-json-raw-length=1025"}, wantErr: true},
		"no JSON at all":               {flags: []string{"--max-json-raw-length=0"}, wantErr: true},
		"less than no watch":           {flags: []string{"--max-feedback-watch=-1"}, wantErr: true},
		"no time between looks":        {flags: []string{"--status-sync-interval=0s"}, wantErr: true},
		"another source":               {flags: []string{"--workload-source-driver=mqtt"}, wantErr: true},
		"an unknown gate":              {gates: []string{"Nonsense=true"}, wantErr: true},
	} {
		t.Run(reason, func(t *testing.T) {
			flags := defaultWorkFlags()
			fs := pflag.NewFlagSet("", pflag.ContinueOnError)
			flags.addWorkFlags(fs)
			if err := fs.Parse(test.flags); err != nil {
				t.Fatal(err)
			}
			got, err := flags.workPartOptions(logr.Discard(), test.gates)
			if (err != nil) != test.wantErr {
				t.Fatalf("error is %v, want one: %t", err, test.wantErr)
			}
			if diff := cmp.Diff(test.want, got, cmpopts.IgnoreFields(work.PartOptions{}, "Logger", "Clock")); diff != "" {
				t.Errorf("options, -want +got:\n%s", diff)
			}
		})
	}
}
