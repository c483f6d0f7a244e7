// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package version shows the versions of capstan and of the hub.
package version

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilversion "k8s.io/apimachinery/pkg/util/version"
	apimachineryversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	sigsyaml "sigs.k8s.io/yaml"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/cli/hub"
	"github.com/capstan-io/capstan/internal/server/version"
)

// hubPatience is how long the hub may take to tell its version. The version of
// capstan itself is known without it, so nobody should wait long.
const hubPatience = 5 * time.Second

// versionReport is what the command prints.
type versionReport struct {
	Client     string `json:"client"`
	Hub        string `json:"hub,omitempty"`
	Kubernetes string `json:"kubernetes,omitempty"`
	// Check is how the versions of capstan and of the hub compare.
	Check comparison `json:"check,omitempty"`
}

// comparison is how the versions of capstan and of the hub compare.
type comparison string

const (
	equal     comparison = "equal"
	hubOlder  comparison = "hubOlder"
	hubNewer  comparison = "hubNewer"
	different comparison = "notComparable"
)

// NewVersionCommand returns the command "version".
func NewVersionCommand(session *hub.Session) *cobra.Command {
	var clientOnly, check bool
	var output string
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the versions of capstan and of the hub",
		Long: "Prints the version of capstan and, if the hub can be reached, those of Capstan and Kubernetes on the hub. If it " +
			"cannot, the command says so on standard error and does not fail.\n\n" +
			"With --check, it compares capstan with the hub, says which of them to upgrade and how, and fails unless they are of the same release.",
		Example: `  # Both
  capstan version

  # Are capstan and the hub of the same release?
  capstan version --check

  # For a script
  capstan version --client -o json`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output != "" && output != "json" && output != "yaml" {
				return exit.UsageError("--output: unknown format %q; the formats are json and yaml", output)
			}
			if check && clientOnly {
				return exit.UsageError("--check compares with the hub, which --client does not contact: leave out one of them")
			}
			v := versionReport{Client: version.SemanticVersion()}
			if check {
				return v.checkRelease(cmd.Context(), session, output)
			}
			if !clientOnly {
				if err := v.askHub(cmd.Context(), session); err != nil {
					err = session.ExplainError(err)
					defer func() { fmt.Fprintf(session.ErrOut, "The version of the hub is not known: %v\n", err) }()
				}
			}
			return v.printVersions(session, output)
		},
	}
	cmd.Flags().BoolVar(&clientOnly, "client", false, "Do not contact the hub")
	cmd.Flags().BoolVar(&check, "check", false, "Compare capstan with the hub, and fail unless they are of the same release")
	cmd.Flags().StringVarP(&output, "output", "o", "", "Output format. One of: (json, yaml)")
	return cmd
}

// checkRelease compares capstan with the hub.
func (v *versionReport) checkRelease(ctx context.Context, session *hub.Session, output string) error {
	if err := v.askHub(ctx, session); err != nil {
		return fmt.Errorf("the version of the hub is not known: %w", session.ExplainError(err))
	}
	v.Check = compareReleases(v.Client, v.Hub)
	if err := v.printVersions(session, output); err != nil {
		return err
	}
	switch v.Check {
	case equal:
		return nil
	case hubOlder:
		return exit.Next(fmt.Errorf("the hub is of release %s, older than capstan, which is of %s", v.Hub, v.Client),
			"Upgrade the hub with \"capstan upgrade\", and then its members: see \"Upgrade it\" in docs/cli.md.")
	case hubNewer:
		return exit.Next(fmt.Errorf("capstan is of release %s, older than the hub, which is of %s", v.Client, v.Hub),
			"Install release %s of capstan. An older one does not know what is new on the hub, and does not upgrade it.", v.Hub)
	default:
		return exit.Next(fmt.Errorf("capstan is of version %s, and the hub of %s, which cannot be compared", v.Client, v.Hub),
			"Use a released version of both.")
	}
}

// compareReleases compares two versions.
func compareReleases(client, hub string) comparison {
	if client == hub {
		return equal
	}
	mine, err := utilversion.ParseSemantic(client)
	if err != nil {
		return different
	}
	its, err := utilversion.ParseSemantic(hub)
	switch {
	case err != nil:
		return different
	case its.LessThan(mine):
		return hubOlder
	case mine.LessThan(its):
		return hubNewer
	default: // they differ in metadata of the build only
		return equal
	}
}

// askHub asks the hub. What it learned before an error is kept.
func (v *versionReport) askHub(ctx context.Context, session *hub.Session) error {
	ctx, cancel := context.WithTimeout(ctx, hubPatience)
	defer cancel()
	config, err := session.LoadRESTConfig()
	if err != nil {
		return err
	}
	if v.Kubernetes, err = kubernetesVersion(ctx, config); err != nil {
		return err
	}
	c, err := session.ConnectHub()
	if err != nil {
		return err
	}
	// The operator notes on the definitions which release wrote them. Only their
	// metadata is fetched: a definition has tens of kilobytes.
	definition := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition"}}
	err = c.Get(ctx, client.ObjectKey{Name: "managedclusters." + clusterv1.GroupName}, definition)
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("%s is not a Capstan hub", session.DescribeTarget())
	}
	if err != nil {
		return err
	}
	if v.Hub = definition.Annotations[operatorv1.AnnotationCRDVersion]; v.Hub == "" {
		return fmt.Errorf("%s is a hub, but not installed by Capstan's operator", session.DescribeTarget())
	}
	return nil
}

func kubernetesVersion(ctx context.Context, config *rest.Config) (string, error) {
	c, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return "", fmt.Errorf("prepare the connection: %w", err)
	}
	answer, err := c.RESTClient().Get().AbsPath("/version").DoRaw(ctx)
	if err != nil {
		return "", err
	}
	var info apimachineryversion.Info
	if err := json.Unmarshal(answer, &info); err != nil {
		return "", fmt.Errorf("decode the version that the API server reported: %w", err)
	}
	return info.GitVersion, nil
}

func (v *versionReport) printVersions(session *hub.Session, output string) error {
	var text []byte
	var err error
	switch output {
	case "json":
		text, err = json.MarshalIndent(v, "", "    ")
		text = append(text, '\n')
	case "yaml":
		text, err = sigsyaml.Marshal(v)
	default:
		text = fmt.Appendf(text, "Client Version: %s\n", v.Client)
		if v.Hub != "" {
			text = fmt.Appendf(text, "Hub Version: %s\n", v.Hub)
		}
		if v.Kubernetes != "" {
			text = fmt.Appendf(text, "Kubernetes Version: %s\n", v.Kubernetes)
		}
		if v.Check == equal {
			text = fmt.Appendln(text, "Both are of the same release.")
		}
	}
	if err != nil {
		return fmt.Errorf("print versions: %w", err)
	}
	_, err = session.Out.Write(text)
	return err
}
