// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Command capstan-manager is everything that Capstan runs in a cluster: the
// two operators, the hub's controllers and webhooks, and the agents. Which one
// it is depends on the name that it is called by and its first argument.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/capstan-io/capstan/internal/operator/instance"
	"github.com/capstan-io/capstan/internal/server/options"
	"github.com/capstan-io/capstan/internal/server/version"
)

// ocmHealthPort is where OCM's charts ask its operators how they are, over
// HTTPS: an operator that does not answer there is restarted for ever.
const ocmHealthPort = 8443

func main() {
	if err := newRootCommand(os.Args[0]).ExecuteContext(ctrl.SetupSignalHandler()); err != nil {
		fmt.Fprintf(os.Stderr, "capstan-manager: %v\n", err)
		os.Exit(1)
	}
}

// newRootCommand returns the command for the name that the program was called
// by: the links registration-operator, registration and work in the image take
// the arguments that OCM's programs of these names take, so that charts and
// tools which render those command lines run Capstan.
func newRootCommand(calledAs string) *cobra.Command {
	root := &cobra.Command{
		Use:           filepath.Base(calledAs),
		Version:       version.SemanticVersion(),
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.CompletionOptions.DisableDefaultCmd = true
	switch filepath.Base(calledAs) {
	case "registration-operator":
		server := options.DefaultServer()
		server.SecureHealthProbePort = ocmHealthPort
		root.AddCommand(
			renameCommand("hub", newClusterManagerCommand(server)),
			renameCommand("klusterlet", newKlusterletCommand(server)),
			renameCommand("agent", newAgentCommand()),
		)
	case "registration":
		root.AddCommand(
			renameCommand("controller", newRegistrationControllerCommand()),
			renameCommand("webhook-server", newRegistrationWebhookCommand()),
			renameCommand("agent", newRegistrationAgentCommand()),
		)
	case "work":
		root.AddCommand(
			renameCommand("manager", newWorkControllerCommand()),
			renameCommand("webhook-server", newWorkWebhookCommand()),
			renameCommand("agent", newWorkAgentCommand()),
		)
	case "placement":
		root.AddCommand(
			renameCommand("controller", newPlacementControllerCommand()),
			renameCommand("debug", newPlacementDebugCommand()),
		)
	case "propagation":
		root.AddCommand(renameCommand("controller", newPropagationControllerCommand()))
	default:
		root.AddCommand(
			newClusterManagerCommand(options.DefaultServer()),
			newKlusterletCommand(options.DefaultServer()),
			newControlPlaneCommand(options.DefaultServer()),
			newEtcdDataCommand(),
			instance.NewCommand(),
			newAgentCommand(),
			newPushAgentCommand(),
			newRegistrationControllerCommand(),
			newRegistrationWebhookCommand(),
			newRegistrationAgentCommand(),
			newWorkControllerCommand(),
			newWorkWebhookCommand(),
			newWorkAgentCommand(),
			newPlacementControllerCommand(),
			newPlacementDebugCommand(),
			newPropagationControllerCommand(),
		)
	}
	return root
}

// renameCommand gives a command the name that it has under another program's name.
func renameCommand(use string, cmd *cobra.Command) *cobra.Command {
	cmd.Use = use
	return cmd
}
