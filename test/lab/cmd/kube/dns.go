// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"fmt"
	"log"
	"os"

	"github.com/coredns/caddy"
	_ "github.com/coredns/coredns/core/dnsserver"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/loadbalance"
)

// runDNS is CoreDNS. Its own main package is not used because it puts flags
// among everybody's that clash with those of kube-proxy.
func runDNS(args []string) error {
	log.SetOutput(os.Stdout)
	flags := flag.NewFlagSet("coredns", flag.ContinueOnError)
	path := flags.String("conf", "Corefile", "file to read the configuration from")
	if err := flags.Parse(args); err != nil {
		return err
	}
	content, err := os.ReadFile(*path)
	if err != nil {
		return fmt.Errorf("read configuration: %w", err)
	}
	instance, err := caddy.Start(caddy.CaddyfileInput{
		Contents:       content,
		Filepath:       *path,
		ServerTypeName: "dns",
	})
	if err != nil {
		return err
	}
	instance.Wait()
	return nil
}
