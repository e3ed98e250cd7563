// SPDX-License-Identifier: GPL-2.0-only
// Blinks one LED from the board oscillator, with a push button to pause it.

module blinky #(
    parameter integer CLK_HZ   = 12_000_000,
    parameter integer BLINK_HZ = 2
) (
    input  wire clk,
    input  wire rst_n,
    input  wire button_n,
    output reg  led
);

    // The LED toggles twice in each period.
    localparam integer HALF  = CLK_HZ / (2 * BLINK_HZ);
    localparam integer WIDTH = $clog2(HALF);

    reg [WIDTH-1:0] count;

    // Two flip-flops bring the asynchronous button into this clock domain.
    reg [1:0] button_sync;
    always @(posedge clk or negedge rst_n) begin
        if (!rst_n)
            button_sync <= 2'b11;
        else
            button_sync <= {button_sync[0], button_n};
    end

    wire paused = ~button_sync[1];

    always @(posedge clk or negedge rst_n) begin
        if (!rst_n) begin
            count <= {WIDTH{1'b0}};
            led   <= 1'b0;
        end else if (!paused) begin
            if (count == HALF - 1) begin
                count <= {WIDTH{1'b0}};
                led   <= ~led;
            end else begin
                count <= count + 1'b1;
            end
        end
    end

endmodule
