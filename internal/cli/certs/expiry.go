// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/cli/columns"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/cli/hub"
)

// formatJSON is the value of --output for programs.
const formatJSON = "json"

func newExpiry(session *hub.Session) *cobra.Command {
	p := &planeFlags{session: session}
	output := ""
	cmd := &cobra.Command{
		Use:   "expiry",
		Short: "Show when certificates expire",
		Long: "Shows when the certificates of a dedicated hub expire, those that expire first at the top. The names are those " +
			"of Secrets in namespace NAME-control-plane on the host.",
		Example: `  # Show when the certificates of the hub fleet expire
  capstan certs expiry --name fleet

  # The same for a program
  capstan certs expiry --name fleet -o json`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output != "" && output != formatJSON {
				return exit.UsageError("--output: unknown format %q; the only format is %s", output, formatJSON)
			}
			_, cp, err := p.findControlPlane(cmd.Context())
			if err != nil {
				return err
			}
			certificates := byExpiry(cp.Status.Certificates)
			if output == formatJSON {
				return printJSON(session, certificates)
			}
			fmt.Fprint(session.Out, columns.FormatTable(certificateRows(certificates, session.Clock.Now())))
			return nil
		},
	}
	p.addFlags(cmd.Flags())
	cmd.Flags().StringVarP(&output, "output", "o", "", "Output format. One of: ("+formatJSON+")")
	return cmd
}

// byExpiry returns the certificates, those that expire first at the front.
func byExpiry(certificates []fleetv1alpha1.ControlPlaneCertificate) []fleetv1alpha1.ControlPlaneCertificate {
	sorted := slices.Clone(certificates)
	slices.SortStableFunc(sorted, func(a, b fleetv1alpha1.ControlPlaneCertificate) int {
		if order := a.Expires.Compare(b.Expires.Time); order != 0 {
			return order
		}
		return strings.Compare(a.Name, b.Name)
	})
	return sorted
}

// certificateRows are those of the table.
func certificateRows(certificates []fleetv1alpha1.ControlPlaneCertificate, now time.Time) [][]string {
	table := [][]string{{"CERTIFICATE", "EXPIRES", "LEFT", "AUTHORITY"}}
	for _, c := range certificates {
		left := "expired"
		if c.Expires.After(now) {
			left = duration.HumanDuration(c.Expires.Sub(now))
		}
		authority := "no"
		if c.Authority {
			authority = "yes"
		}
		table = append(table, []string{c.Name, c.Expires.UTC().Format(time.RFC3339), left, authority})
	}
	return table
}

func printJSON(session *hub.Session, certificates []fleetv1alpha1.ControlPlaneCertificate) error {
	text, err := json.MarshalIndent(certificates, "", "  ")
	if err != nil {
		return fmt.Errorf("print the certificates: %w", err)
	}
	fmt.Fprintln(session.Out, string(text))
	return nil
}
