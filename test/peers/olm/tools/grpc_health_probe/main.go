// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Command grpc_health_probe asks a server of gRPC whether it serves, as OLM's
// probes of catalogs do: grpc_health_probe -addr=:50051.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
)

const patience = 4 * time.Second // less than that of the probes

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "grpc_health_probe: %v\n", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	flags := flag.NewFlagSet("grpc_health_probe", flag.ContinueOnError)
	address := flags.String("addr", "", "address of the server")
	if err := flags.Parse(args); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	connection, err := grpc.NewClient("passthrough:///"+*address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer func() { _ = connection.Close() }() // the program ends
	answer, err := grpc_health_v1.NewHealthClient(connection).Check(ctx, &grpc_health_v1.HealthCheckRequest{})
	if err != nil {
		return err
	}
	if answer.Status != grpc_health_v1.HealthCheckResponse_SERVING {
		return fmt.Errorf("%s is %s", *address, answer.Status)
	}
	return nil
}
